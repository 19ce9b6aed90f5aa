"""The mathematics on arrays: state, likelihoods, updates, the bound, rotation, predictions. No frames, no files."""
