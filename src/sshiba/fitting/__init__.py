"""The fit: a sweep, the loop of sweeps, the number of factors, and restarts."""
