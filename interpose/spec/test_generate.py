#!/usr/bin/python3
"""Tests of the generator: what it writes for small rows, and that rows which cannot be right are refused by name."""

import os
import pathlib
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

import generate  # noqa: E402
from spec import surface  # noqa: E402
from spec.language import (  # noqa: E402
    OP_KINDS,
    REPLAYED_KINDS,
    Library,
    Row,
    Spec,
    SpecError,
    overwrite,
    read,
    running,
    scratch,
    write,
)

HEADER = """
typedef struct Tensor *cudnnTensorDescriptor_t;
typedef struct Handle *cudnnHandle_t;
typedef struct Stream *CUstream;
typedef unsigned long long CUdeviceptr;
typedef int Status;
Status cudnnScale(cudnnHandle_t handle, const void *beta, const cudnnTensorDescriptor_t xDesc, const void *x,
                  const cudnnTensorDescriptor_t yDesc, void *y, void *space, unsigned long spaceBytes);
Status cudnnOther(void *handle);
Status cuSet(CUdeviceptr dst, int value, unsigned long n, CUstream hStream);
Status cuSet_ptsz(CUdeviceptr dst, int value, unsigned long n, CUstream hStream);
Status cuSet_v2(CUdeviceptr dst, int value, unsigned long n, CUstream hStream);
Status cuSetSync(CUdeviceptr dst, int value, unsigned long n);
Status cudnnOdd(cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, void *x, int *found);
Status cuMany(CUdeviceptr *to, unsigned long sizes[], unsigned long count, CUstream hStream);
typedef Status (*PFN_cuSet_v4000)(CUdeviceptr dst, int value, unsigned long n, CUstream hStream);
typedef Status (*PFN_cuSet_v3020)(unsigned int dst, int value, unsigned long n, CUstream hStream);
typedef Status (*PFN_cuSet_v7000_ptsz)(CUdeviceptr dst, int value, unsigned long n, CUstream hStream);
"""

WRAPPER = """\
POOCH_EXPORT Status cudnnScale(cudnnHandle_t handle, const void *beta, const cudnnTensorDescriptor_t xDesc, \
const void *x, const cudnnTensorDescriptor_t yDesc, void *y, void *space, unsigned long spaceBytes) {
  const Scope scope;
  auto* const real = real_cudnnScale.get(scope);
  if (real == nullptr) return MISSING;
  const auto launch = [&] { return real(handle, beta, xDesc, x, yDesc, y, space, spaceBytes); };
  if (const Unwatched passes(scope); passes) return launch();
  runtime::Session* const session = scope.outermost() ? session_for_library_call(scope) : nullptr;
  if (session == nullptr) return launch();
  CallBuilder call(scope, *session, "cudnnScale", OpKind::elementwise, stream_in(scope, handle));
  call.add(x, tensor_extent(scope, xDesc), Effect::read);
  call.add(space, spaceBytes, Effect::scratch);
  call.add(y, tensor_extent(scope, yDesc), scalar_not_zero(scope, beta, yDesc) ? Effect::read_write : \
Effect::overwrite);
  call.trait(scalar_of(scope, beta, xDesc));
  call.trait(spaceBytes);
  const auto keep = [&]() -> std::unique_ptr<Replay> {
    const Keeping keeping(scope, call.accesses());
    return keep_call(keeping, "cudnnScale", real, keep_handle(keeping, handle), keep_scalar(keeping, beta, xDesc), \
keep_descriptor(keeping, xDesc), keep_operand(keeping, x), keep_descriptor(keeping, yDesc), keep_operand(keeping, y), \
keep_operand(keeping, space), keep_value(spaceBytes));
  };
  call.keep(keep);
  return call.submit(FULL, launch);
}"""


def new_spec(name="cudnn"):
    statuses = dict(missing="MISSING", out_of_memory="FULL")
    return Spec(Library(name, "libsmall.so.1", "small.h", **statuses, stream_of_handle="stream_in"))


def scale_row(spec, **changed):
    operands = dict(x=read("xDesc"), space=scratch("spaceBytes"), y=overwrite("yDesc", read_if="*beta != 0"))
    meaning = dict(kind="elementwise", stream="handle", **operands)
    meaning.update(changed)
    spec.row("cudnnScale", **meaning)
    return spec


class Generator(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.headers = generate.parse_headers(HEADER, [])

    def refused(self, spec, message):
        with self.assertRaisesRegex(SpecError, message):
            generate.check(spec, self.headers)

    def text(self, spec):
        generate.check(spec, self.headers)
        return generate.wrappers(spec, self.headers)

    def test_wrapper_is_written_in_full(self):
        self.assertIn(WRAPPER, self.text(scale_row(new_spec())))

    def test_what_is_unsupported_passes_through_and_says_so_once_unless_it_is_silent(self):
        spec = new_spec("cuda")
        spec.unsupported("cuSet", why="nobody looks")
        text = self.text(spec)
        self.assertIn('  warn_unsupported(scope, warned, "cuSet", "nobody looks");\n  return real(dst, value, n', text)
        self.assertIn("    cuSet;\n", generate.exports([spec]))
        silent = new_spec("cuda")
        silent.unsupported("cuSet", why="nobody looks", silent="it ends the program")
        self.assertNotIn("cuSet", self.text(silent))
        self.assertNotIn("cuSet", generate.exports([silent]))

    def test_a_library_may_have_another_way_to_submit(self):
        spec = Spec(Library("cudnn", "libsmall.so.1", session="session_of(handle)", submit="put_in(call, launch)"))
        spec.row("cuSet", kind="set", stream="hStream", dst=overwrite("n"))
        text = self.text(spec)
        self.assertIn("scope.outermost() ? session_of(handle) : nullptr;", text)
        self.assertIn("  return put_in(call, launch);", text)

    def test_unknown_operand_names_the_row(self):
        self.refused(scale_row(new_spec(), z=read("xDesc")), "^cudnnScale: no parameter 'z'$")

    def test_unknown_name_in_an_expression_names_the_row(self):
        self.refused(scale_row(new_spec(), space=scratch("spaceSize * 2")), "^cudnnScale: no parameter 'spaceSize'")

    def test_unknown_stream_scalar_and_kind_name_the_row(self):
        self.refused(scale_row(new_spec(), stream="queue"), "^cudnnScale: no parameter 'queue'")
        self.refused(scale_row(new_spec(), host=["gamma"]), "^cudnnScale: no parameter 'gamma'")
        self.refused(scale_row(new_spec(), kind="scaling"), "^cudnnScale: no OpKind 'scaling'")

    def test_functions_declared_for_cxx_only_are_found(self):
        text = """int plain(int a);
extern "C" {
int both(int a);
struct Half { short x; };
int cxx_only(const Half *const many[], Half last);
}
int overloaded(int a);
int overloaded(float a);
"""
        found = generate.parse_cxx_headers(text, [])
        self.assertEqual(sorted(found), ["both", "cxx_only"])
        self.assertEqual([p.type for p in found["cxx_only"].parameters], ["const Half *const *", "Half"])

    def test_pointer_arrays_have_rows(self):
        for name, entry in surface.load("cublas").entries.items():
            if name.endswith(("Batched", "Batched_64", "BatchedEx", "BatchedEx_64")) and "Strided" not in name:
                with self.subTest(name):
                    self.assertEqual([o.extent for _, o in entry.operands], ["anywhere()"])

    def test_unknown_function_names_the_row(self):
        spec = new_spec()
        spec.hook("cudnnMissing", where="missing.cpp")
        self.refused(spec, "^cudnnMissing: not declared in small.h$")

    def test_two_rows_for_one_function_are_refused(self):
        spec = scale_row(new_spec())
        with self.assertRaisesRegex(SpecError, "^cudnnScale: two rows"):
            spec.hook("cudnnScale", where="here.cpp")

    def test_condition_has_one_form(self):
        spec = scale_row(new_spec(), y=overwrite("yDesc", read_if="beta"))
        self.refused(spec, "^cudnnScale: read_if")

    def test_addresses_in_copied_memory_are_looked_for_before_a_call_may_pass(self):
        spec = new_spec("cuda")
        spec.row("cuSet", kind="set", stream="hStream", dst=overwrite("n"), carries=("dst", "n"))
        text = self.text(spec)
        self.assertIn("  note_carried(scope, *session, dst, n);\n  if (const Unwatched passes(scope); passes) return", text)

    def test_zero_stream_follows_the_abi(self):
        spec = new_spec("cuda")
        spec.row("cuSet cuSet_ptsz", kind="set", stream="hStream", dst=overwrite("n"))
        text = self.text(spec)
        self.assertIn('"cuSet", OpKind::set, stream_of(hStream, StreamHandle::legacy)', text)
        self.assertIn('"cuSet_ptsz", OpKind::set, stream_of(hStream, StreamHandle::per_thread)', text)

    def test_repeated_operands(self):
        spec = new_spec("cuda")
        also = [write("sizes[i]", at="to[i]", each="count")]
        spec.row("cuMany", kind="set", stream="hStream", blocks="true", also=also, no_replay="many results")
        text = self.text(spec)
        self.assertIn("for (size_t i = 0; i < count; ++i) call.add(to[i], sizes[i], Effect::write);", text)
        self.assertIn("call.blocks(true);", text)
        self.assertIn("unsigned long *sizes", text)

    def test_scalars_by_pointer_mode(self):
        spec = scale_row(new_spec(), host=["beta"])
        text = self.text(spec)
        self.assertIn("if (scalars_on_device) call.add(beta, sizeof(*beta), Effect::read);", text)
        self.assertIn("scalars_on_device || host_scalar_not_zero(beta) ? Effect::read_write", text)

    def test_abi_versions(self):
        last = 1 << 30
        self.assertEqual(generate.version_range("cuSet", self.headers), (3020, 4000))
        self.assertEqual(generate.version_range("cuSet_v2", self.headers), (4000, last))
        self.assertEqual(generate.version_range("cuSet_ptsz", self.headers), (7000, last))

    def test_scalars_of_a_type_that_only_a_parameter_tells(self):
        spec = scale_row(new_spec(), host={"beta": "typed(spaceBytes)"})
        text = self.text(spec)
        self.assertIn("if (scalars_on_device) call.add(beta, typed(spaceBytes), Effect::read);", text)
        self.assertIn("scalars_on_device || host_scalar_not_zero(beta, typed(spaceBytes)) ? ", text)

    def test_unknown_hazard_names_the_row(self):
        self.refused(scale_row(new_spec(), hazard="in_place slow"), "^cudnnScale: no hazard 'slow'")

    def test_a_blended_operand_accumulates(self):
        spec = scale_row(new_spec(), hazard="in_place")
        self.assertEqual(spec.entries["cudnnScale"].hazards, ("accumulates", "in_place"))

    def test_a_replay_leaves_running_values_out(self):
        text = self.text(scale_row(new_spec(), x=running("xDesc")))
        self.assertIn("call.add(x, tensor_extent(scope, xDesc), Effect::read_write);", text)
        self.assertIn("keep_descriptor(keeping, xDesc), keep_nothing(), keep_descriptor(keeping, yDesc)", text)

    def test_no_recipe_for_other_kinds_hazards_that_stay_and_where_a_row_says_so(self):
        for changed in (dict(kind="blas"), dict(hazard="trial"), dict(no_replay="too\n  odd")):
            self.assertNotIn("call.keep", self.text(scale_row(new_spec(), **changed)), changed)
        self.assertEqual(scale_row(new_spec(), no_replay="too\n  odd").entries["cudnnScale"].unreplayed, "too odd")
        self.assertIn("tries algorithms", scale_row(new_spec(), hazard="trial").entries["cudnnScale"].unreplayed)
        self.refused(scale_row(new_spec(), kind="blas", no_replay="odd"), "^cudnnScale: no_replay, but")

    def test_a_convolution_says_which_algorithm_it_runs_with_and_a_trial_what_it_found(self):
        runs = self.text(scale_row(new_spec(), convolution="xDesc yDesc"))
        self.assertIn("if (session->wants_details()) call.tried(tried(scope, {xDesc, yDesc}, algo));", runs)
        tries = self.text(scale_row(new_spec(), convolution="xDesc yDesc", hazard="trial"))
        self.assertIn("const Status status = call.submit(FULL, launch);", tries)
        self.assertIn("note_trials(scope, {xDesc, yDesc}, *returnedAlgoCount, perfResults);\n  return status;", tries)
        self.refused(scale_row(new_spec(), convolution="xDesc lost"), "^cudnnScale: no parameter 'lost'")

    def test_a_parameter_that_no_recipe_keeps_names_the_row(self):
        odd = dict(kind="elementwise", stream="handle", x=overwrite("xDesc"))
        spec = new_spec()
        spec.row("cudnnOdd", **odd)
        self.refused(spec, r"^cudnnOdd: no recipe keeps 'found' \(int \*\)")
        spec = new_spec()
        spec.row("cudnnOdd", **odd, kept={"found": "keep_nothing()"})
        self.assertIn("keep_operand(keeping, x), keep_nothing());", self.text(spec))
        lost = scale_row(new_spec(), kept={"lost": "keep_nothing()"})
        self.refused(lost, r"^cudnnScale: no parameter 'lost' \(in kept\)$")

    def test_a_synchronous_call_is_replayed_in_a_stream(self):
        def spec_with(**more):
            spec = new_spec("cuda")
            spec.row("cuSet", kind="set", stream="hStream", dst=overwrite("n"))
            spec.row("cuSetSync", kind="set", stream="legacy", dst=overwrite("n"), **more)
            return spec

        self.refused(spec_with(), "^cuSetSync: a replay needs a stream")
        self.refused(spec_with(replay_as="cuLost"), "^cuSetSync: no function 'cuLost'")
        self.refused(spec_with(replay_as="cuMany"), "^cuSetSync: no parameter 'to' for cuMany$")
        text = self.text(spec_with(replay_as="cuSet"))
        arguments = "keep_operand(keeping, dst), keep_value(value), keep_value(n), keep_stream()"
        self.assertIn(f'return keep_call(keeping, "cuSet", real_cuSet.get(scope), {arguments});', text)

    def test_conditions_of_recipes(self):
        self.assertIn("if (scalars_on_device) return nullptr;", self.text(scale_row(new_spec(), host=["beta"])))
        spec = new_spec("cuda")
        spec.row("cuSet", kind="=kind_of_copy(dst, dst)", stream="hStream", dst=overwrite("n"))
        self.assertIn("if (call.kind() != OpKind::copy_device) return nullptr;", self.text(spec))

    def test_export_list(self):
        spec = scale_row(new_spec())
        spec.passthrough("cudnnOther", why="a query")
        exports = "{\n  global:\n    dlsym;\n    cudnnScale;\n  local:\n    *;\n};\n"
        self.assertEqual(generate.exports([spec]), exports)

    def test_prototypes_are_of_wrapped_functions_only(self):
        spec = new_spec("cuda")
        spec.hook("cuSet", where="set.cpp")
        spec.passthrough("cuSet_v2", why="a query")
        lines = generate.prototypes([spec], self.headers).splitlines()[1:]
        self.assertEqual(lines, ["Status cuSet(CUdeviceptr dst, int value, unsigned long n, CUstream hStream)"])


class Recipes(unittest.TestCase):
    """The rows of all libraries, without their prototypes: those a build checks."""

    def rows(self):
        for name in generate.LIBRARIES:
            yield from (entry for entry in surface.load(name).entries.values() if isinstance(entry, Row))

    def test_the_table_of_kinds_is_read_whole(self):
        text = (pathlib.Path(HERE).parent.parent / "core" / "op_kind.h").read_text(encoding="utf-8")
        body = re.search(r"enum class OpKind[^{]*\{(.*?)\}", text, re.S).group(1)
        self.assertEqual(list(OP_KINDS), re.findall(r"^\s*(\w+),", body, re.M))
        self.assertIn("conv_forward", REPLAYED_KINDS)
        self.assertNotIn("dropout_forward", REPLAYED_KINDS)

    def test_no_recipe_moves_a_state_along(self):
        for row in self.rows():
            if row.unreplayed:
                continue
            self.assertNotIn("dropout_states", row.hazard, row.name)
            once = sum(operand.once for _, operand in row.operands)
            self.assertEqual(once, 2 if "running_statistics" in row.hazard else 0, row.name)

    def test_most_forward_calls_have_a_recipe(self):
        replayed = {row.name for row in self.rows() if not row.unreplayed}
        wanted = """cudnnConvolutionForward cudnnConvolutionBiasActivationForward cudnnBatchNormalizationForwardTraining
            cudnnBatchNormalizationForwardInference cudnnBatchNormalizationForwardTrainingEx
            cudnnNormalizationForwardTraining cudnnNormalizationForwardInference cudnnActivationForward
            cudnnPoolingForward cudnnSoftmaxForward cudnnLRNCrossChannelForward cudnnDivisiveNormalizationForward
            cudnnOpTensor cudnnAddTensor cudnnScaleTensor cudnnSetTensor cudnnTransformTensor cudnnTransformTensorEx
            cudnnTransformFilter cudnnReduceTensor cublasLtMatmul cublasGemmEx cublasSgemm_v2 cublasSgemv_v2
            cublasGemmStridedBatchedEx cublasSgemmStridedBatched cuMemcpyDtoD_v2 cuMemcpyDtoDAsync_v2
            cuMemcpyAsync_ptsz cuMemcpy2DAsync_v2 cuMemsetD8Async cuMemsetD32_v2""".split()
        self.assertEqual(set(wanted) - replayed, set())
        self.assertFalse({name for name in replayed if "Backward" in name or "RNN" in name or "Find" in name})


class Surface(unittest.TestCase):
    def setUp(self):
        self.spec = new_spec()
        scale_row(self.spec)
        self.spec.passthrough("cudnnOther", why="a\n    query")

    def test_names_without_a_class_and_classes_without_a_name(self):
        self.assertEqual(surface.unclassified(self.spec, ["cudnnNew", "cudnnOther", "cudnnScale"]), ["cudnnNew"])
        self.assertEqual(surface.not_listed(self.spec, ["cudnnOther"]), ["cudnnScale"])

    def test_names_stand_under_their_class_and_reason(self):
        text = "\n".join(surface.library_text("libsmall.so.1 1.0", ["cudnnOther", "cudnnScale"], self.spec))
        self.assertIn("**tracked** by a row; hazards: accumulates; made again\n\n```\ncudnnScale\n```", text)
        self.assertIn("**passed through**: a query\n\n```\ncudnnOther\n```", text)

    def test_a_reason_against_a_replay_stands_there(self):
        spec = scale_row(new_spec(), no_replay="odd")
        text = "\n".join(surface.library_text("libsmall.so.1 1.0", ["cudnnScale"], spec))
        self.assertIn("**tracked** by a row; hazards: accumulates; not made again: odd\n", text)

    def test_unclassified_names_are_counted(self):
        lines = list(surface.summary([("libsmall.so.1 1.0", ["cudnnNew", "cudnnOther", "cudnnScale"], self.spec)]))
        self.assertIn("| libsmall.so.1 1.0 | 3 | 1 | 0 | 1 | 0 | 1 |", lines)


if __name__ == "__main__":
    unittest.main()
