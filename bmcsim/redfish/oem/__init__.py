"""What vendors add: actions and writes of their own."""
