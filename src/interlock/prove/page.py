def rendered(*a): return ""
