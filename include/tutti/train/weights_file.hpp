#pragma once
// Weights in files: a checkpoint, any HDF5 file with one data set per name, or safetensors.

#include <span>
#include <string>
#include <vector>

#include "tutti/base/named_tensor.hpp"

namespace tutti {

class Graph;

/// All floating-point and integer tensors of the file. The format is found by content, not by the file's
/// name: HDF5 signature; else safetensors (https://github.com/huggingface/safetensors, "Format": u64 length,
/// JSON header, data). Of a checkpoint only model/ is read; in other HDF5 files group paths become dotted
/// names ("conv1/weight" -> "conv1.weight"; a data set "conv1.weight" keeps its name). Types: F64, F32, BF16,
/// F16 (converted to f32), I64, U8 in safetensors; the corresponding native ones in HDF5; others are skipped
/// if not floating, refused if floating; I32 becomes i64. Where all names begin with "module." or
/// "_orig_mod.", as PyTorch's DistributedDataParallel and torch.compile have them, they go without. Vision
/// transformers of torchvision and Hugging Face get timm's names (src/train/vit_names.hpp). Sorted by name;
/// two tensors of one name are an error. A checkpoint's model is checked against its SHA-256. Throws
/// DataError naming the file, the tensor and what is wrong; a data set (data/README.md) and predictions are
/// refused as such.
std::vector<NamedTensor> read_weights(const std::string& path);

/// Throws DataError where all names of the weights of `file` begin alike up to a dot ("model.", as Lightning
/// saves what its module holds), and without that are the parameters of the model, at least half of them: it
/// says what to take away, and how.
void refuse_common_prefix(std::span<const NamedTensor> tensors, const Graph& model, const std::string& file);

/// What weights were trained on, each empty where nothing says it.
struct TrainedOn {
    std::string normalisation;  ///< of the samples (JSON of train/normalisation.hpp)
    std::string data;           ///< JSON of train/training_data.hpp
    friend bool operator==(const TrainedOn&, const TrainedOn&) = default;
};

/// Writes the tensors in name order: PATH.safetensors, or PATH.h5 with one data set per name and the root
/// attribute tutti_weights_version (1; endings in capitals, too); read_weights gives them back. trained_on is
/// metadata in safetensors, in HDF5 attributes of the root. The file is complete or not there. Throws
/// UsageError (another ending), DataError (a name that the format cannot hold) and RunError (cannot be
/// written).
void write_weights(const std::string& path, std::vector<NamedTensor> tensors,
                   const TrainedOn& trained_on = {});

/// What a checkpoint, or a file that write_weights wrote, says of that: nothing where it is of an older
/// version or of another program, or cannot be read.
TrainedOn read_trained_on(const std::string& path);

/// Whether a file may be one that write_weights wrote: any safetensors, and HDF5 that says so. False for what
/// cannot be read.
bool is_exported_file(const std::string& path);

}  // namespace tutti
