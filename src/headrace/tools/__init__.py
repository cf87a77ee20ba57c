"""What operators do beside a running application, as functions; ``headrace.cli`` parses, calls and prints."""
