"""The exit addresses: how proxies are read, checked and watched."""
