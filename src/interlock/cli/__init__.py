"""The `interlock` command: a shell that parses, asks the service and prints. It has no rule of its own."""
