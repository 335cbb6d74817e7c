// A vendor call that fails ends the program with one line that names the call and the error.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <stdexcept>
#include <string>

namespace train {

enum class Exit : int { ok = 0, failed = 1, bad_usage = 2, out_of_memory = 3 };

class Failure : public std::runtime_error {
 public:
  Failure(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Exit code() const { return code_; }

 private:
  Exit code_;
};

// `call` is the function's name, with what matters of its arguments. Throw Failure unless the status is
// success; every vendor's out-of-memory status becomes Exit::out_of_memory.
void check(cudaError_t status, const std::string& call);
void check(cudnnStatus_t status, const char* call);
void check(cublasStatus_t status, const char* call);

// "12.5 MiB".
std::string readable_bytes(std::size_t bytes);

}  // namespace train
