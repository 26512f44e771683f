#include "tandem/error.h"

#include "tandem/foreign_exception.h"

namespace tandem {

// The only functions that are not inline: their place in the library is where the classes' type
// information lives, so that an exception thrown here can be caught on the other side.
Error::~Error() = default;
ForeignException::~ForeignException() = default;

}  // namespace tandem
