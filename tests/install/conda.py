#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds the library's package of conda/recipe.yaml by rattler-build (py-rattler-build), and has it run the recipe's tests.
What conda-forge would bring comes from this machine: packages that the recipe requires are left out. The recipe of the
Python package, which would go into conda's own Python, is rendered alone.

Arguments: the checkout, a directory for the packages."""
import pathlib
import sys

import rattler_build

checkout, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
recipe = rattler_build.Stage0Recipe.from_file(checkout / 'conda' / 'recipe.yaml')
compilers = rattler_build.VariantConfig({'c_compiler': ['gcc'], 'c_stdlib': ['sysroot'], 'c_stdlib_version': ['2.28']})
names = [str(variant.recipe.package.name) for variant in recipe.render(compilers)]
if names != ['tutti', 'tutti-python']:
    sys.exit(f'conda: the recipe makes {names}, expected tutti and tutti-python')

alone = recipe.to_dict()
alone['outputs'] = [output for output in alone['outputs'] if output['package']['name'] == 'tutti']
for output in alone['outputs']:
    output['requirements'] = {}
alone['source'][0]['path'] = str(checkout)
(out / 'recipe').mkdir(parents=True)  # it is written there
alone = rattler_build.Stage0Recipe.from_dict(alone, recipe_dir=out / 'recipe')
for variant in alone.render(compilers):
    try:
        built = variant.run_build(rattler_build.ToolConfiguration(test_strategy='native', keep_build=True), output_dir=out, channels=[])
    except rattler_build.RattlerBuildError as error:
        for log in out.rglob('conda_build.log'):
            print(log, *log.read_text(errors='replace').splitlines()[-30:], sep='\n')
        sys.exit(f'conda: {error}')
    print('conda: built', *(pathlib.Path(package).name for package in built.packages))
