# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the introspection tools do not check about the introspection data and the library's symbols.

GCUDA_GIR, GCUDA_LIBRARY and GCUDA_HEADERS (the source folder of the public headers) say where they are.
"""

import glob
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

import tap

CORE = '{http://www.gtk.org/introspection/core/1.0}'
C = '{http://www.gtk.org/introspection/c/1.0}'
GLIB = '{http://www.gtk.org/introspection/glib/1.0}'

CALLABLES = ('function', 'method', 'constructor', 'virtual-method', 'callback')
TYPES = ('class', 'interface', 'enumeration', 'bitfield', 'record', 'union')

# Symbols that scripts cannot see, and why. Nothing else may have introspectable="0".
HIDDEN_FROM_SCRIPTS = {
    'gcuda_buffer_download_into': 'it writes to an address; scripts have gcuda_buffer_download()',
    'gcuda_host_map_get_data': 'it is an address; scripts have gcuda_host_map_read() and gcuda_host_map_write()',
    'gcuda_memory_resource_class_set_thread_safe': 'a promise that only code without an interpreter lock can keep',
}

# Functions that return a gboolean beside out arguments, and why the value is not returned instead
BOOLEAN_WITH_OUT = {
}

# Virtual functions with the name of a method that has other arguments, and how Vala sees both
SAME_NAME_AS_A_METHOD = {
    'MemoryResource.deallocate_address': 'GCuda-1.0.metadata renames the method to free_address',
}

# Symbols that the library exports and no scanned header declares, beside those of the headers for C only
EXPORTED_FOR_C = {
}


def allowed(table, name):
    return any(re.fullmatch(pattern, name) for pattern in table)


class Gir(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.namespace = ElementTree.parse(os.environ['GCUDA_GIR']).getroot().find(CORE + 'namespace')
        cls.parents = {child: parent for parent in cls.namespace.iter() for child in parent}

    def elements(self, *tags):
        for element in self.namespace.iter():
            if element.tag.startswith(CORE) and element.tag[len(CORE):] in tags:
                yield element
            elif element.tag == GLIB + 'signal' and 'signal' in tags:
                yield element

    def name(self, element):
        """A name that says where an element is."""
        own = element.get(C + 'identifier') or element.get(C + 'type') or element.get('name') or element.tag
        parent = self.parents.get(element)
        if element.get(C + 'identifier') or parent is None or parent is self.namespace:
            return own
        return f'{parent.get("name")}.{own}'

    def public(self, *tags):
        """Elements of these kinds, without class structures and what is in them."""
        for element in self.elements(*tags):
            inside = element
            while inside is not None and inside is not self.namespace:
                if inside.get(GLIB + 'is-gtype-struct-for'):
                    break
                inside = self.parents.get(inside)
            else:
                yield element

    def report(self, what, found):
        self.assertEqual([], sorted(found), what)

    def test_scripts_see_everything(self):
        self.report('introspectable="0" without an entry in HIDDEN_FROM_SCRIPTS', [
            self.name(element) for element in self.public(*CALLABLES, *TYPES, 'property', 'signal', 'constant')
            if element.get('introspectable') == '0' and not allowed(HIDDEN_FROM_SCRIPTS, self.name(element))])

    def test_hidden_symbols_exist(self):
        names = [self.name(element) for element in self.elements(*CALLABLES, *TYPES, 'constant')
                 if element.get('introspectable') == '0']
        self.report('entries of HIDDEN_FROM_SCRIPTS that hide nothing', [
            pattern for pattern in HIDDEN_FROM_SCRIPTS if not any(re.fullmatch(pattern, name) for name in names)])

    def test_types_are_registered(self):
        self.report('types without a GType', [
            self.name(element) for element in self.public(*TYPES) if not element.get(GLIB + 'get-type')])

    def test_everything_has_a_description(self):
        self.report('no description', [
            self.name(element)
            for element in self.public(*CALLABLES, *TYPES, 'property', 'signal', 'constant', 'member')
            if element.find(CORE + 'doc') is None])

    def test_everything_has_a_since(self):
        self.report('no Since', [
            self.name(element)
            for element in self.public('function', 'method', 'constructor', *TYPES, 'property', 'signal')
            if not element.get('version')])

    def test_arguments_are_described(self):
        found = []
        for element in self.public('function', 'method', 'constructor'):
            for parameter in element.iter(CORE + 'parameter'):
                if parameter.find(CORE + 'doc') is None:
                    found.append(f'{self.name(element)} ({parameter.get("name")})')
            result = element.find(CORE + 'return-value')
            if result.find(CORE + 'type') is not None and result.find(CORE + 'type').get('name') != 'none' \
                    and result.find(CORE + 'doc') is None:
                found.append(f'{self.name(element)} (the return value)')
        self.report('not described', found)

    def test_property_names_hide_nothing(self):
        found = []
        for owner in self.public('class', 'interface'):
            methods = {method.get('name') for method in owner.findall(CORE + 'method')}
            for prop in owner.findall(CORE + 'property'):
                name = prop.get('name')
                if re.match(r'(get|set|is)(-|$)', name) or name.replace('-', '_') in methods:
                    found.append(f'{owner.get("name")}:{name}')
        self.report('a property that hides a method in JavaScript and Vala', found)

    def test_virtual_functions_hide_nothing(self):
        found = []
        for owner in self.public('class', 'interface'):
            methods = {method.get('name') for method in owner.findall(CORE + 'method')}
            found += [f'{owner.get("name")}.{virtual.get("name")}' for virtual in owner.findall(CORE + 'virtual-method')
                      if virtual.get('name') in methods and not virtual.get('invoker')
                      and not allowed(SAME_NAME_AS_A_METHOD, f'{owner.get("name")}.{virtual.get("name")}')]
        self.report('a virtual function with the name of a method: Vala loses the method', found)

    def test_no_pointers(self):
        # JavaScript passes NULL for any gpointer
        found = []
        for element in self.public(*CALLABLES):
            if element.get('introspectable') == '0':
                continue
            results = [element.find(CORE + 'return-value')]
            for value in results + list(element.iter(CORE + 'parameter')):
                kind = value.find(CORE + 'type')
                if kind is not None and kind.get('name') in ('gpointer', 'gconstpointer') \
                        and value.get('closure') is None and value.get('name') != 'user_data':
                    found.append(f'{self.name(element)} ({value.get("name") or "the return value"})')
        self.report('a pointer that JavaScript cannot pass', found)

    def test_no_boolean_beside_out_arguments(self):
        found = []
        for element in self.public('function', 'method'):
            result = element.find(f'{CORE}return-value/{CORE}type')
            if result is not None and result.get('name') == 'gboolean' \
                    and any(parameter.get('direction') == 'out' for parameter in element.iter(CORE + 'parameter')) \
                    and not allowed(BOOLEAN_WITH_OUT, self.name(element)):
                found.append(self.name(element))
        self.report('a script gets an always true tuple', found)

    def test_flags_have_a_none(self):
        self.report('flags without a member for no flag', [
            self.name(element) for element in self.public('bitfield')
            if not any(member.get('value') == '0' for member in element.findall(CORE + 'member'))])

    def test_exported_symbols_are_public(self):
        lines = subprocess.run(['nm', '-D', '--defined-only', os.environ['GCUDA_LIBRARY']], check=True,
                               stdout=subprocess.PIPE, text=True).stdout.splitlines()
        exported = {line.split()[-1].split('@')[0] for line in lines if line.split()[-2] not in 'A'}
        declared = {element.get(C + 'identifier') for element in self.elements(*CALLABLES)}
        declared |= {element.get(GLIB + 'get-type') for element in self.elements(*TYPES)}
        # Headers that the scanner does not read, because they need cuda.h
        for header in glob.glob(os.path.join(os.environ['GCUDA_HEADERS'], '**', '*-cuda.h'), recursive=True):
            with open(header, encoding='utf-8') as file:
                text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.DOTALL)
            declared |= set(re.findall(r'\b(gcuda_\w+)\s*\(', text))
        declared -= {None, 'intern'}
        self.report('exported, and in no public header', [
            name for name in exported - declared if not allowed(EXPORTED_FOR_C, name)])
        inline = {name for name in declared - exported if self.is_inline(name)}
        self.report('in a public header, and not exported', declared - exported - inline)

    def is_inline(self, name):
        for header in glob.glob(os.path.join(os.environ['GCUDA_HEADERS'], '**', '*.h'), recursive=True):
            with open(header, encoding='utf-8') as file:
                if re.search(rf'\binline\b[^;{{}}]*\b{name}\s*\(', file.read()):
                    return True
        return False

    def test_nothing_links_to_the_driver(self):
        text = subprocess.run(['readelf', '-d', os.environ['GCUDA_LIBRARY']], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        needed = re.findall(r'\(NEEDED\).*\[(.*)\]', text)
        self.assertTrue(needed)
        self.report('NEEDED', [name for name in needed if name.startswith(('libcuda', 'libnvidia', 'libgcudasim'))])

    def test_library_is_never_unloaded(self):
        text = subprocess.run(['readelf', '-d', os.environ['GCUDA_LIBRARY']], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        self.assertRegex(text, r'FLAGS_1.*NODELETE')


if __name__ == '__main__':
    tap.main()
