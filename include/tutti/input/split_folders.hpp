#pragma once
// Folders of training, validation and test data that would be taken for classes.

#include <string>

namespace tutti {

/// Looks at the folders in `folder`, which would be the classes, before anything is packed. levels: how many
/// folders lie below each other in a part where only `levels` − 1 do in a class: 1 of images, 2 of clips.
/// Throws UsageError where two or more folders, and all that there are, are named as parts of a data set
/// (train, val, test, …) and one of them holds the folders of classes: what they are, and how to pack each. A
/// warning where there are other folders, too, or one part alone; else empty.
std::string refuse_splits(const std::string& folder, int levels);

}  // namespace tutti
