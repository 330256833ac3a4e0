#pragma once
// How images of any size become images of one.

namespace tutti {

/// crop: scaled until both sides are large enough, then the centre is taken. letterbox: scaled until both
/// sides fit in, and put in the centre of black. stretch: each side is scaled on its own.
enum class Fit { crop, letterbox, stretch };

}  // namespace tutti
