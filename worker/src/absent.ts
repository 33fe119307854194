/** Stands in for optional libraries of Baileys that must not be loaded: no image tools, no link previews. */
export {}
