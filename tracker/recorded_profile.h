// Runs the tracker on a recording, without the program.
#pragma once

#include "core/profile.h"
#include "core/recording.h"

namespace pooch::tracker {

// The run's profile as far as calls tell it: no times, nothing measured. The phase with the most ops in all
// its iterations comes first. Reads to the end, or to where a killed program's stream stops. Errors: the
// reader's.
Result<Profile> profile_of(RecordingReader& recording);

}  // namespace pooch::tracker
