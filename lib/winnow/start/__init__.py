"""What a broker does with its log directories when it starts."""
