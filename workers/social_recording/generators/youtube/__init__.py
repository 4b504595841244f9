"""YouTube: the Data API with a key, titles from oEmbed without one."""
