"""What is in stock: free slots, healthy proxies, connected sessions, profiles for sessions to come."""
