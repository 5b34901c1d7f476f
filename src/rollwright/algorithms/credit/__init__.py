"""How rewards become advantages: baselines, returns, critics, states, teachers, and the stages around them."""
