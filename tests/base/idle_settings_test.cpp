#include "tutti/base/idle_settings.hpp"

#include <gtest/gtest.h>

#include "config_helpers.hpp"

namespace tutti {
namespace {

using Texts = std::vector<std::string>;

Texts idle(std::span<const std::string> settings) {
    return idle_settings(parse("", std::vector<std::string>(settings.begin(), settings.end())));
}

TEST(IdleSettings, AreToldWithWhatTheyWouldNeed) {
    struct Case {
        Texts settings;
        std::string warning;
    };
    for (const Case& c : {
             Case{{"schedule.warmup=power", "schedule.warmup_lr=0.1"},
                  "schedule.warmup, schedule.warmup_lr have no effect without schedule.warmup_epochs"},
             Case{{"schedule.warmup_epochs=1", "schedule.warmup_power=3"},
                  "schedule.warmup_power has no effect without schedule.warmup: power"},
             Case{{"optim.dampening=0.5"}, "optim.dampening has no effect without optim.momentum"},
             Case{{"data.tail=pad", "data.drop_last=true"}, "data.tail has no effect with data.drop_last"},
             Case{{"train.confusion=true", "train.topk=3", "train.eval_every=2"},
                  "train.confusion, train.topk, train.eval_every have no effect without data.val"},
             Case{{"train.checkpoint.best_from=30"},
                  "train.checkpoint.best_from has no effect without train.checkpoint.best"},
             Case{{"train.checkpoint.best=val/loss", "train.checkpoint.best_from=30", "train.epochs=29"},
                  "train.checkpoint.best has no effect as train.checkpoint.best_from is 30 and train.epochs "
                  "29"},
             Case{{"train.checkpoint.best=val/loss", "train.checkpoint.best_from=9", "train.epochs=20",
                   "data.val=v.h5", "train.early_stopping={patience: 3}", "train.eval_every=2"},
                  "train.early_stopping may end the run after epoch 8, before train.checkpoint.best_from, 9: "
                  "then no checkpoint is kept as the best"},
             Case{{"run.trace_steps=20"}, "run.trace_steps has no effect without run.trace"},
             Case{{"run.virtual_shards=16"}, "run.virtual_shards has no effect without run.deterministic"},
         })
        EXPECT_EQ(idle(c.settings), Texts{c.warning});
}

TEST(IdleSettings, AreNoneWhereTheyCount) {
    for (const Texts& settings :
         {Texts{}, Texts{"schedule.warmup=power", "schedule.warmup_power=3", "schedule.warmup_epochs=1"},
          Texts{"optim.dampening=0.5", "optim.momentum=0.9"}, Texts{"data.tail=pad"},
          Texts{"train.confusion=true", "data.val=v.h5"}, Texts{"run.trace_steps=20", "run.trace=true"},
          Texts{"train.checkpoint.best=val/loss", "train.checkpoint.best_from=30", "train.epochs=30"},
          Texts{"train.checkpoint.best=val/loss", "train.checkpoint.best_from=8", "train.epochs=20",
                "data.val=v.h5", "train.early_stopping={patience: 3}", "train.eval_every=2"},
          Texts{"train.checkpoint.best=val/loss", "train.checkpoint.best_from=4", "train.epochs=4",
                "data.val=v.h5", "train.early_stopping={patience: 9223372036854775807}"},
          Texts{"run.virtual_shards=16", "run.deterministic=true"}})
        EXPECT_EQ(idle(settings), Texts{});
}

}  // namespace
}  // namespace tutti
