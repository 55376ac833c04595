UPDATE migrations SET serves = {serves} WHERE version = {version};
