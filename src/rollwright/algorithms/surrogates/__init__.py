"""What is maximised of each token, and the losses of critics and pairs."""
