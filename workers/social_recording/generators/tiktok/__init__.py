"""TikTok: oEmbed for nothing, an actor for numbers and ids."""
