"""The WAHA façade: another product's paths, names and webhooks, thin over our own rooms."""
