/// All of Tandem's public API.
#pragma once

#include "tandem/config.h"
#include "tandem/device.h"
#include "tandem/distribute.h"
#include "tandem/dtype.h"
#include "tandem/error.h"
#include "tandem/function.h"
#include "tandem/gradient_tape.h"
#include "tandem/log.h"
#include "tandem/npy.h"
#include "tandem/ops.h"
#include "tandem/optimizers.h"
#include "tandem/profile.h"
#include "tandem/shape.h"
#include "tandem/structure.h"
#include "tandem/tensor.h"
#include "tandem/variable.h"
