#include "cli/command.h"

int main(int argc, char** argv) { return sluice::cli::run(argc, argv); }
