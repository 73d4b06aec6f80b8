"""Parts that the exact, slow decoders and encoders of several formats share."""
