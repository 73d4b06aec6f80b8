"""What decoders and encoders of several formats share."""
