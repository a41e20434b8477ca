// SPDX-License-Identifier: BSD-3-Clause
// The Python module: what makes a process group's backend, and its options.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <tutti/tutti.h>

#include "backend.h"
#include "comm.h"
#include "completions.h"
#include "gil.h"
#include "options.h"
#include "versions.h"

namespace py = pybind11;
using tutti_torch::TuttiBackend;
using tutti_torch::TuttiOptions;

static c10::intrusive_ptr<TuttiBackend> create(const c10::intrusive_ptr<c10d::Store> &store,
					       int rank, int size, const std::string &group,
					       const std::vector<uint64_t> &ranks,
					       const c10::intrusive_ptr<TuttiOptions> &options)
{
	tutti_torch::set_group<c10d::Backend::Options>(*options, group, ranks);
	return c10::make_intrusive<TuttiBackend>(store, rank, size, options);
}

// Threads of ours must not ask for the GIL of an interpreter that ends.
static void end()
{
	const tutti_torch::ReleaseGil release;

	tutti_torch::Comm::close_all();
	tutti_torch::finish_soon();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
	py::module_::import("torch.distributed"); // its classes are the bases

	py::class_<TuttiOptions, c10d::Backend::Options, c10::intrusive_ptr<TuttiOptions>>(
		module, "Options",
		"Options of a process group of tutti: see docs/guide/pytorch.md.")
		.def(py::init<std::chrono::milliseconds>(),
		     py::arg("timeout") = kBackendDefaultTimeout)
		.def_readwrite("transports", &TuttiOptions::transports)
		.def_readwrite("algorithm", &TuttiOptions::algorithm)
		.def_readwrite("host_id", &TuttiOptions::host_id)
		.def_readwrite("key", &TuttiOptions::key)
		.def_readwrite("reproducible", &TuttiOptions::reproducible)
		.def_readwrite("encrypt", &TuttiOptions::encrypt)
		.def_readwrite("wire", &TuttiOptions::wire)
		.def_readwrite("callers", &TuttiOptions::callers);

	py::class_<TuttiBackend, c10d::Backend, c10::intrusive_ptr<TuttiBackend>>(module,
										  "TuttiBackend")
		// PyTorch calls it on ranks outside a new group when a parent is split. Here only
		// the members of a group make it, so there is nothing to do.
		.def("perform_nocolor_split", [](TuttiBackend &, const py::object &) {});

	module.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"),
		   py::arg("group"), py::arg("ranks"), py::arg("options"),
		   py::call_guard<py::gil_scoped_release>());
	module.def("version", &tutti_version);
	py::module_::import("atexit").attr("register")(py::cpp_function(&end));
}
