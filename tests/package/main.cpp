// Uses an installed Tandem as a stranger would. An exception thrown inside the shared library must
// arrive here with its type.
#include <tandem/tandem.h>

#include <cstdio>

int main() {
  try {
    tandem::DeviceSpec::parse("//gpu:0");
  } catch (const tandem::InvalidArgument& error) {
    const tandem::Error& base = error;
    std::printf("caught: %s\n", base.what());
    return 0;
  } catch (const std::exception& error) {
    std::printf("lost its type: %s\n", error.what());
    return 1;
  }
  std::puts("no error was thrown");
  return 1;
}
