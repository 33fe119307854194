"""The pages people look at: server-rendered, live, in Hebrew and English, light and dark."""
