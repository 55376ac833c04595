UPDATE interlock.migrations SET serves = {serves} WHERE version = {version};
