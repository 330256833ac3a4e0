#include "commands.hpp"
#include "tutti/device/openmp_places.hpp"

int main(int argc, char** argv) {
    tutti::run_on_all_places();
    return tutti::run_trainer(argc, argv);
}
