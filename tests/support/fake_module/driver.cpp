// A libcuda.so.1 that the program finds where it looks for a driver. The fake module asks it for nothing.
extern "C" int tutti_fake_driver() {
    return 1;
}
