#pragma once
// Options of other trainers that people bring along: command-line flags and YAML keys of the set-ups that
// Tutti takes over, each with the setting it stands for, or with what to write instead. One table; the
// command line, the config reader, the reference in jobs/options.md and the tests read it.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

struct FamiliarOption {
    enum class Form { flag, yaml };
    enum class Meaning {
        setting,   ///< stands for our config key `target`
        option,    ///< stands for our command-line option `target`
        needless,  ///< accepted, of YAML keys with `words` only these values: what it asks for happens
                   ///< anyway; `note` says how
        refused    ///< `note` says what to write instead
    };
    /// How a value is written here.
    enum class Value { as_given, hdf5, lower_case, epochs, switch_on };

    std::string from;  ///< the set-ups that have it
    std::string name;  ///< "--bs" or "train.val_every"
    Form form = Form::flag;
    Meaning meaning = Meaning::setting;
    std::string target;   ///< "train.batch_size" or "-c"
    std::string note;     ///< for people; ends up in messages and in the reference
    std::string command;  ///< "train" or "predict": only there; empty: in both (flags)
    Value value = Value::as_given;
    std::string fixed = {};  ///< switch_on: what a flag without value sets
    /// Words that are called otherwise here: {"true", "bf16"}.
    std::vector<std::pair<std::string, std::string>> words = {};
};

/// All of them, in the order of the reference.
const std::vector<FamiliarOption>& familiar_options();

/// The flag `name` of the command "train" or "predict", or else one that differs from it in capitals, _ and -
/// only; or nullptr.
const FamiliarOption* find_familiar_flag(std::string_view name, std::string_view command);
/// The YAML key `path`, or nullptr.
const FamiliarOption* find_familiar_key(std::string_view path);
/// Whether a familiar YAML key lies below `path`: true for "train_dataset".
bool is_familiar_section(std::string_view path);

/// `value` as it is written here. Throws UsageError "WHERE: NAME: …" when the table refuses it: a data set
/// that is not HDF5.
std::string familiar_value(const FamiliarOption& option, const std::string& value, const std::string& where);
/// Throws UsageError "WHERE: GIVEN …; NOTE" for a refused option, which was written as `given`.
[[noreturn]] void refuse_familiar(const FamiliarOption& option, const std::string& given,
                                  const std::string& where);

/// The arguments of the command "train" or "predict" with familiar flags replaced by ours ("--bs 32" becomes
/// "train.batch_size=32"), in their order. Throws UsageError for refused flags, and for values that are
/// missing.
std::vector<std::string> translate_familiar_flags(std::span<const std::string> arguments,
                                                  std::string_view command);

}  // namespace tutti
