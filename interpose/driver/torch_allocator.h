// The allocator that PyTorch is asked to use.
#pragma once

namespace pooch::interpose {

// Says at the info level what was chosen when this library was loaded, if anything; once.
void say_torch_allocator();
// Warns, once, where PyTorch's settings cost planning. Called when more than the cap is wanted.
void warn_of_torch_settings();

}  // namespace pooch::interpose
