#include "tandem/error.h"

namespace tandem {

// The one function that is not inline: its place in the library is where the class's type
// information lives, so that an exception thrown here can be caught on the other side.
Error::~Error() = default;

}  // namespace tandem
