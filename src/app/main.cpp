#include "commands.hpp"

int main(int argc, char** argv) {
    return tutti::run_trainer(argc, argv);
}
