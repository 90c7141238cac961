"""What the families of protocols share. Imported by codecs only."""
