"""Support for tests of Interlock and of programs that use it. Nothing in production imports it."""
