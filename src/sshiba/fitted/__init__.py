"""What a fitted model is, one frozen value, and what it says about rows: factors, predictions, scores, draws."""
