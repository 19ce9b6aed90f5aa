"""Mathematics on arrays: state, likelihoods, updates, the bound, rotation, predictions. No frames, no lasting files."""
