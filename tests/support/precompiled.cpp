// Whose precompiled headers all programs of tests use.
int main() { return 0; }
