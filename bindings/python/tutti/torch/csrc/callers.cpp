// SPDX-License-Identifier: BSD-3-Clause
#include "callers.h"

#include <Python.h>

#include <pybind11/pybind11.h>

namespace tutti_torch
{

namespace
{

namespace py = pybind11;

constexpr int FRAMES = 3;

std::string text_of(const py::object &frame, bool *of_torch)
{
	const std::string path = py::str(frame.attr("f_code").attr("co_filename"));
	const std::string name = py::str(frame.attr("f_code").attr("co_name"));
	const auto slash = path.find_last_of('/');

	*of_torch = path.find("/torch/") != std::string::npos;
	return (slash == std::string::npos ? path : path.substr(slash + 1)) + ":" +
	       std::to_string(py::cast<int>(frame.attr("f_lineno"))) + " in " + name;
}

} // namespace

std::string python_caller()
{
	const py::gil_scoped_acquire gil;
	py::object frame =
		py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject *>(PyEval_GetFrame()));
	std::string text;

	for (int frames = 0; frame && !frame.is_none() && frames < FRAMES;
	     frame = frame.attr("f_back")) {
		bool of_torch;
		const std::string one = text_of(frame, &of_torch);

		if (of_torch)
			continue;
		text += (text.empty() ? "" : " < ") + one;
		frames++;
	}
	return text;
}

} // namespace tutti_torch
