"""What every contributed algorithm, data set and partition must do; what fails is said in plain words."""
