#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What tutti-info reports, on this machine and on made-up ones.

test_info.py TUTTI_INFO CUDA_STANDIN NVML_STANDIN RDMA

RDMA: "rdma", or "" in a build without it."""
import json
import os
import resource
import unittest

from launched import ProgramTest, arguments

INFO, CUDA, NVML, RDMA = arguments(4)
INFINIBAND = 'sys/class/infiniband'
GPU = 'sys/bus/pci/devices/0000:17:00.0'


def hint(of, key):
    return of.get('hints', {}).get(key, '')


def entry(values, name):
    """The entry of a list that has this name."""
    return next(value for value in values if value.get('name') == name)


def unless_left_out(why):
    """Why no port can be used, in a build that has RDMA."""
    return why if RDMA else 'RDMA is not in this build'


class Info(ProgramTest):
    def report(self, *options, **env):
        info = self.run_to_end(INFO, '--json', *options, **env)
        self.assertEqual(info.err, '')
        return json.loads(info.out)

    def made_up(self, files=None, **env):
        """The report of a machine of files."""
        for name, content in (files or {}).items():
            self.write(name, f'{content}\n')
        return self.report('--sysroot', self.dir, **env)

    # ---- this machine

    def test_text_has_every_section(self):
        out = self.run_to_end(INFO).out
        for words in ('\ncpu\n', '\nmemory\n', '\nnetwork\n', '\nrdma\n', '\ngpu\n', '\nlimits\n', '\nkernels\n',
                      '\nlauncher\n', 'allowed cores', 'memlock limit', 'used', 'isa'):
            self.assertIn(words, out)

    def test_a_report_that_cannot_be_written_is_a_failure(self):
        for options in ['--json'], ['--version'], []:
            self.assert_output_is_missed(INFO, *options)

    def test_values_are_those_of_the_system(self):
        found = self.report()
        self.assertEqual(found['cpu']['allowed_threads'], len(os.sched_getaffinity(0)))
        self.assertEqual(found['memory']['total_bytes'] // os.sysconf('SC_PAGESIZE'), os.sysconf('SC_PHYS_PAGES'))
        self.assertEqual(found['limits']['open_files_limit'], resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self.assertEqual(found['limits']['kernel'], os.uname().release)
        self.assertTrue(found['kernels']['isa'])
        lo = entry(found['network']['interfaces'], 'lo')
        self.assertIn('used between ranks' if lo['used'] else 'it is down', lo['reason'])
        if found['network']['usable_between_hosts']:
            self.assertIn('the same TUTTI_KEY or TUTTI_KEY_FILE', hint(found['network'], 'usable_between_hosts'))

    def test_affinity_and_a_low_limit_of_open_files_show(self):
        """The limit has a hint."""
        own, files = os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(os.sched_setaffinity, 0, own)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, files)
        os.sched_setaffinity(0, {min(own)})
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, files[1]))
        found = self.report()
        self.assertEqual((found['cpu']['allowed_cpus'], found['cpu']['allowed_cores']), (str(min(own)), 1))
        self.assertEqual(found['limits']['open_files_limit'], 256)
        self.assertIn('ulimit -n', hint(found['limits'], 'open_files_limit'))

    def test_an_interface_may_be_left_out_and_hosts_need_no_hint_with_a_key(self):
        network = self.report(TUTTI_INTERFACE='^lo')['network']
        lo = entry(network['interfaces'], 'lo')
        self.assertIs(lo['used'], False)
        self.assertIn('TUTTI_INTERFACE leaves it out', lo['reason'])
        self.assertEqual(hint(self.report(TUTTI_KEY_FILE='/nowhere')['network'], 'usable_between_hosts'), '')

    def test_the_launcher_is_recognised(self):
        launcher = self.report(RANK=3, WORLD_SIZE=8)['launcher']
        self.assertEqual((launcher['name'], launcher['rank']), ('torchrun', '3'))
        self.assertIn('MASTER_ADDR', hint(launcher, 'store'))
        launcher = self.report(RANK=3, WORLD_SIZE=8, TUTTI_RANK=1)['launcher']
        self.assertEqual(launcher['name'], 'tutti-run')
        self.assertIn('incomplete', hint(launcher, 'name'))
        inner = {'OMPI_COMM_WORLD_RANK': 1, 'OMPI_COMM_WORLD_SIZE': 2}
        launcher = self.report(TUTTI_RANK=0, TUTTI_SIZE=1, TUTTI_RESTART=0, **inner)['launcher']
        self.assertEqual((launcher['name'], launcher['rank']), ('Open MPI', '1'))

    def test_the_key_is_not_shown(self):
        text = json.dumps(self.report(TUTTI_KEY='000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f'))
        self.assertNotIn('0102', text)
        self.assertIn('"TUTTI_KEY": ', text)

    # ---- made-up machines

    def test_a_synthetic_topology_is_reported(self):
        cpu = self.report(HWLOC_SYNTHETIC='pack:2 [numa] l3:1 core:4 pu:2')['cpu']
        self.assertEqual([cpu[key] for key in ('packages', 'cores', 'threads', 'allowed_cpus')], [2, 8, 16, '0-15'])
        self.assertEqual(len(cpu['numa_nodes']), 2)
        l3 = entry(cpu['caches'], 'L3')
        self.assertEqual((l3['count'], l3['threads_each']), (2, 8))

    def test_rdma_ports_tell_state_and_link_layer(self):
        device = f'{INFINIBAND}/mlx5_0'
        rdma = self.made_up({f'{device}/node_type': '1: CA', f'{device}/fw_ver': '28.39.1002',
                             f'{device}/ports/1/state': '4: ACTIVE', f'{device}/ports/1/link_layer': 'Ethernet',
                             f'{device}/ports/2/state': '1: DOWN'})['rdma']
        found = entry(rdma['devices'], 'mlx5_0')
        self.assertEqual(found['firmware'], '28.39.1002')
        one, two = found['ports']
        self.assertEqual((one['state'], one['link_layer'], one['mtu'], hint(one, 'state')),
                         ('ACTIVE', 'Ethernet', None, ''))
        self.assertEqual(two['state'], 'DOWN')
        self.assertIn('ACTIVE', hint(two, 'state'))
        self.assertIn('not usable: it has no GID', one['reason'])
        self.assertIn('not usable: it is DOWN', two['reason'])
        self.assertEqual((found['dmabuf'], found['dmabuf_reason']),
                         (None, 'not asked: the device is not of this machine'))

    def test_usable_rdma_ports_show_their_gid(self):
        device = f'{INFINIBAND}/rxe7'
        port = f'{device}/ports/1'
        rdma = self.made_up({f'{device}/node_type': '1: CA', f'{device}/device/numa_node': '0',
                             f'{port}/state': '4: ACTIVE', f'{port}/link_layer': 'Ethernet',
                             f'{port}/rate': '25 Gb/sec (1X EDR)',
                             f'{port}/gids/0': '0000:0000:0000:0000:0000:0000:0000:0000',
                             f'{port}/gids/1': 'fe80:0000:0000:0000:5054:00ff:fe12:3456',
                             f'{port}/gid_attrs/types/1': 'RoCE v2', f'{port}/gid_attrs/ndevs/1': 'eth7'})['rdma']
        found, = entry(rdma['devices'], 'rxe7')['ports']
        self.assertIs(found['usable'], bool(RDMA))
        self.assertIn('usable: it is active' if RDMA else 'this build, which is without RDMA', found['reason'])
        self.assertIn(unless_left_out(''), hint(rdma, 'usable_ports'))
        self.assertEqual(rdma['usable_ports'], ['rxe7 port 1'] if RDMA else [])
        if RDMA:
            self.assertEqual(hint(rdma, 'usable_ports'), '')
        self.assertEqual({key: found[key] for key in ('gid', 'gid_kind', 'gid_index', 'speed_mbit', 'numa_node')},
                         {'gid': 'fe80::5054:ff:fe12:3456', 'gid_kind': 'link-local', 'gid_index': 1,
                          'speed_mbit': 25000, 'numa_node': 0})

        rdma = self.made_up(TUTTI_RDMA_GID=0)['rdma']
        found, = entry(rdma['devices'], 'rxe7')['ports']
        self.assertEqual((found['usable'], found['reason']),
                         (False, 'not usable: it has no GID 0, which TUTTI_RDMA_GID asks for'))
        self.assertEqual(rdma['usable_ports'], [])
        self.assertIn(unless_left_out('rxe7 port 1 has no GID 0'), hint(rdma, 'usable_ports'))
        rdma = self.made_up(TUTTI_RDMA_GID='first')['rdma']
        self.assertIn('TUTTI_RDMA_GID is "first": expected the index', hint(rdma, 'usable_ports'))
        self.assertIsNone(entry(rdma['devices'], 'rxe7')['ports'][0]['gid'])

    def test_gpus_are_named_with_their_driver(self):
        other = GPU.replace('17:00.0', '00:02.0')
        version = 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release'
        gpu = self.made_up({f'{GPU}/class': '0x030200', f'{GPU}/vendor': '0x10de', f'{GPU}/numa_node': '1',
                            f'{other}/class': '0x020000', f'{other}/vendor': '0x8086',
                            'proc/driver/nvidia/gpus/0000:17:00.0/information':
                            'Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 55',
                            'proc/driver/nvidia/version': version})['gpu']
        device, = gpu['devices']
        self.assertEqual((device['name'], device['vendor'], device['model']),
                         ('0000:17:00.0', 'NVIDIA', 'NVIDIA H100 80GB HBM3'))
        self.assertIn('no driver has the device', hint(device, 'driver'))
        self.assertEqual((gpu['nvidia_driver_version'], gpu['cuda']), ('570.86.15', None))
        self.assertIn('not asked', gpu['cuda_reason'])

    def gpus(self, devices=2, library=CUDA, **env):
        return self.report(TUTTI_CUDA_LIBRARY=library, STANDIN_DEVICES=devices, **env)['gpu']

    def test_gpus_that_cuda_shows_are_described(self):
        cuda = self.gpus()['cuda']
        self.assertEqual(cuda['version'], '13.0')
        first, second = cuda['devices']
        expected = {'name': 'Stand-in 0', 'pci': '0000:17:00.0', 'compute_capability': '9.0', 'multiprocessors': 8,
                    'memory_bytes': 1 << 30, 'several_processes': True, 'dmabuf': True, 'reaches': []}
        self.assertEqual({**first, **expected}, first)
        expected = {'uuid': 'GPU-10111213-1415-1617-1819-1a1b1c1d1e1f', 'number': 1, 'several_processes': False,
                    'dmabuf': False}
        self.assertEqual({**second, **expected}, second)
        self.assertEqual(second['reaches'][0], 0)

    def test_a_driver_of_cuda_that_fails_says_why(self):
        for library, devices, fails, error, words in (
                ('/nonexistent/libcuda.so.1', 2, '', '', "CUDA's driver cannot be opened: /nonexistent/libcuda.so.1: "),
                ('libjansson.so.4', 2, '', '',
                 'libjansson.so.4 has no cuInit: expected the driver of CUDA 12.1 or newer'),
                (CUDA, 0, '', '', 'CUDA has no GPU for this process: there is none, or CUDA_VISIBLE_DEVICES'),
                (CUDA, 2, 'cuInit', 999, "start CUDA's driver: unknown error (CUDA_ERROR_UNKNOWN, 999)"),
                (CUDA, 2, 'cuDeviceGetCount', 999, 'count the GPUs: unknown error'),
                (CUDA, 2, 'cuDeviceGetName', 77,
                 'ask about GPU 0: an error that this driver has no text for (no name, 77)')):
            gpu = self.gpus(devices, library, STANDIN_FAILS=fails, STANDIN_ERROR=error)
            self.assertIsNone(gpu['cuda'])
            self.assertIn(words, gpu['cuda_reason'])

    def linked(self, links, ancestor=50, version=6, fails='', devices=2, library=NVML):
        """"cuda" of the report, with GPUs that are joined so."""
        return self.gpus(devices, TUTTI_NVML_LIBRARY=library, STANDIN_LINKS=links, STANDIN_ANCESTOR=ancestor,
                         STANDIN_VERSION=version, STANDIN_NVML_FAILS=fails)['cuda']

    def assert_link(self, link, topo, nvlinks, nvswitch, version, pcie):
        self.assertEqual([link[key] for key in ('topo', 'nvlinks', 'nvswitch', 'nvlink_version', 'pcie')],
                         [topo, nvlinks, nvswitch, version, pcie])

    def test_what_joins_two_gpus_is_shown_as_topo_has_it(self):
        nodes, switches, bridge = 'several NUMA nodes', 'several PCIe switches', 'a host bridge'
        for links, ancestor, *expected in (
                ('0-1:4', 50, 'NV4', 4, False, '4.0', nodes),
                ('1-X:2,0-1:4,0-D:3', 20, 'NV4', 4, False, '4.0', switches),
                ('0-S:18,1-S:18', 50, 'NV18', 18, True, '4.0', nodes),
                ('0-S:18,1-S:12', 50, 'NV12', 12, True, '4.0', nodes),
                ('0-S:18,1-D:18', 50, 'SYS', 0, False, None, nodes),
                ('0-H:6,1-H:6', 30, 'NV6', 6, True, '4.0', bridge),
                ('0-X:4,1-X:4', 40, 'NODE', 0, False, None, 'host bridges of one NUMA node'),
                ('', 0, 'PIX', 0, False, None, 'one board'),
                ('', 10, 'PIX', 0, False, None, 'one PCIe switch'),
                ('', 20, 'PXB', 0, False, None, switches),
                ('', 30, 'PHB', 0, False, None, bridge)):
            cuda = self.linked(links, ancestor)
            link, = cuda['links']
            self.assertEqual((cuda['links_reason'], link['name'], link['gpus'][1]), ('NVML shows these', '0 and 1', 1))
            self.assert_link(link, *expected)

    def test_each_two_of_several_gpus_are_shown_once(self):
        links = self.linked('0-1:2,0-2:1,3-1:2', version=2, devices=4)['links']
        self.assertEqual([(link['name'], link['topo']) for link in links],
                         [('0 and 1', 'NV2'), ('0 and 2', 'NV1'), ('0 and 3', 'SYS'), ('1 and 2', 'SYS'),
                          ('1 and 3', 'NV2'), ('2 and 3', 'SYS')])
        self.assertEqual(links[0]['nvlink_version'], '2.0')
        cuda = self.linked('0-S:18', devices=1)
        self.assertEqual((cuda['links'], cuda['links_reason']), ([], 'there are no two GPUs'))

    def test_links_that_nvml_does_not_tell_have_a_reason(self):
        link = 'ask about NVLink 0 of GPU 0000:17:00.0'
        for library, fails, words in (
                ('/nonexistent/libnvidia-ml.so.1', '', 'NVML cannot be opened: /nonexistent/libnvidia-ml.so.1: '),
                ('libjansson.so.4', '', 'libjansson.so.4 has no nvmlInit_v2: expected NVML of CUDA 12 or newer'),
                (NVML, 'nvmlInit_v2:999', 'start NVML: Unknown Error (NVML, 999)'),
                (NVML, 'nvmlInit_v2:77', 'start NVML: an error that it has no text for (NVML, 77)'),
                (NVML, 'nvmlDeviceGetHandleByPciBusId_v2:6', 'find GPU 0000:17:00.0: Not Found (NVML, 6)'),
                (NVML, 'nvmlDeviceGetNvLinkState:999', f'{link}: Unknown Error (NVML, 999)'),
                (NVML, 'nvmlDeviceGetNvLinkRemoteDeviceType:999', link),
                (NVML, 'nvmlDeviceGetNvLinkRemotePciInfo_v2:999', link),
                (NVML, 'nvmlDeviceGetTopologyCommonAncestor:999',
                 'ask what is between GPUs 0000:17:00.0 and 0000:18:00.0: Unknown Error')):
            cuda = self.linked('0-1:4', fails=fails, library=library)
            self.assertEqual((len(cuda['devices']), cuda['links']), (2, []))
            self.assertIn(words, cuda['links_reason'])

    def test_what_nvml_does_not_know_of_a_link_is_null(self):
        for links, ancestor, version, fails, topo, nvlinks, named, pcie in (
                ('0-1:4', 50, 6, 'nvmlDeviceGetNvLinkVersion:3', 'NV4', 4, None, 'several NUMA nodes'),
                ('0-1:4', 50, 99, '', 'NV4', 4, None, 'several NUMA nodes'),
                ('0-1:4', 50, 6, 'nvmlDeviceGetTopologyCommonAncestor:3', 'NV4', 4, '4.0', None),
                ('', 50, 6, 'nvmlDeviceGetTopologyCommonAncestor:3', None, 0, None, None),
                ('', 77, 6, '', None, 0, None, None),
                ('0-1:4', 10, 6, 'nvmlDeviceGetNvLinkState:3', 'PIX', 0, None, 'one PCIe switch')):
            link = self.linked(links, ancestor, version, fails)['links'][0]
            self.assert_link(link, topo, nvlinks, False, named, pcie)

    def test_ends_of_links_that_nvml_does_not_tell_may_be_anywhere(self):
        """What NVML does say is told, and no pair is said to have PCIe alone that may have more."""
        kind, address = 'nvmlDeviceGetNvLinkRemoteDeviceType:3', 'nvmlDeviceGetNvLinkRemotePciInfo_v2:3'
        for links, fails, topo, nvlinks, nvswitch in (
                ('0-U:4,1-U:4', '', None, None, None),
                ('0-1:4', address, None, None, None),
                ('0-S:4,1-S:4', kind, None, None, None),
                ('0-U:4,1-S:4', '', None, None, None),
                ('0-S:4,1-U:4', '', None, None, None),
                # told by one thing that NVML says, or by one end
                ('0-1:4', kind, 'NV4', 4, False),
                ('0-H:4,1-H:4', kind, 'NV4', 4, True),
                ('0-S:4,1-S:4', address, 'NV4', 4, True),
                ('0>1:4', '', 'NV4', 4, False),
                ('1>0:4', '', 'NV4', 4, False),
                ('0-1:3,0-U:1,1-U:1', '', 'NV3', 3, False),
                ('0-S:3,0-U:1,1-S:3', '', 'NV3', 3, True),
                # the other GPU has none that could be it
                ('0-U:4', '', 'SYS', 0, False),
                ('0-U:4,1-X:4', '', 'SYS', 0, False),
                ('0-U:4,1-D:4', '', 'SYS', 0, False)):
            cuda = self.linked(links, fails=fails)
            link = cuda['links'][0]
            self.assertEqual(cuda['links_reason'], 'NVML shows these')
            self.assert_link(link, topo, nvlinks, nvswitch, '4.0' if nvlinks else None, 'several NUMA nodes')
            if nvlinks is None:
                self.assertEqual(list(link['hints']), ['nvlinks'])
                self.assertIn('NVML does not say where', hint(link, 'nvlinks'))
            else:
                self.assertFalse(link.get('hints'))

    def test_the_smallest_limit_of_the_control_groups_counts(self):
        groups = 'sys/fs/cgroup'
        found = self.made_up({'proc/self/cgroup': '0::/jobs/one', f'{groups}/jobs/cpu.max': '50000 100000',
                              f'{groups}/jobs/one/cpu.max': 'max 100000',
                              f'{groups}/jobs/one/memory.max': '536870912', f'{groups}/jobs/memory.max': 'max'})
        self.assertEqual((found['cpu']['quota_limit_cpus'], found['limits']['memory_limit_bytes']), (0.5, 536870912))
        self.assertIn('more than 1 rank will', hint(found['cpu'], 'quota_limit_cpus'))
        found = self.made_up({'proc/self/cgroup': '4:memory:/job\n3:cpuacct,cpu:/job\n0::/',
                              f'{groups}/cpu/job/cpu.cfs_quota_us': '150000',
                              f'{groups}/cpu/job/cpu.cfs_period_us': '100000',
                              f'{groups}/memory/memory.limit_in_bytes': '9223372036854771712'})
        self.assertEqual((found['cpu']['quota_limit_cpus'], found['limits']['memory_limit_bytes']), (1.5, None))

    def test_settings_that_slow_a_job_have_hints(self):
        found = self.made_up({'proc/sys/kernel/yama/ptrace_scope': '1',
                              'proc/sys/net/ipv4/tcp_congestion_control': 'cubic',
                              'proc/sys/net/ipv4/tcp_available_congestion_control': 'reno cubic',
                              'sys/kernel/mm/transparent_hugepage/enabled': 'always madvise [never]'})
        limits, memory = found['limits'], found['memory']
        self.assertEqual((limits['ptrace_scope'], limits['tcp_congestion_control']), (1, 'cubic'))
        self.assertIn('process_vm_readv', hint(limits, 'ptrace_scope'))
        self.assertEqual(len(limits['tcp_congestion_control_available']), 2)
        self.assertEqual(memory['transparent_huge_pages'], 'never')
        self.assertIn('madvise', hint(memory, 'transparent_huge_pages'))

    def test_variables_that_nobody_reads_have_a_hint(self):
        self.assertEqual(hint(self.made_up()['launcher'], 'settings'), '')
        self.assertIn('TUTTI_TIMEOOT (did you mean TUTTI_TIMEOUT?): correct',
                      hint(self.made_up(TUTTI_TIMEOOT=3)['launcher'], 'settings'))
        launcher = self.made_up(**{'TUTTI_\udcff': 'a\udcff'})['launcher']    # a byte that is no UTF-8
        self.assertEqual(launcher['settings'].get('TUTTI_?'), 'a?')
        self.assertIn('TUTTI_?: correct', hint(launcher, 'settings'))

    def test_a_kernel_that_encrypts_is_seen(self):
        known = 'proc/sys/net/ipv4/tcp_available_ulp'
        for names, env, encrypts, words in (('espintcp mptcp', {}, False, None),
                                            ('espintcp mptcp', {'TUTTI_ENCRYPT': 1}, False, 'modprobe tls'),
                                            ('espintcp mptcp tls', {'TUTTI_ENCRYPT': 1}, True, None)):
            network = self.made_up({known: names}, **env)['network']
            self.assertIs(network['kernel_tls'], encrypts)
            self.assertEqual(words is None, hint(network, 'kernel_tls') == '')
            self.assertIn(words or '', hint(network, 'kernel_tls'))

    def test_a_machine_that_tells_nothing_has_the_same_keys(self):
        here, nowhere = self.report(), self.made_up()
        self.assertIn(unless_left_out('this machine has no RDMA device'), hint(nowhere['rdma'], 'usable_ports'))
        for section, values in here.items():
            if isinstance(values, dict):
                self.assertLessEqual(set(values), set(nowhere[section]))

    def test_wrong_arguments_say_what_is_expected(self):
        for words, message in ((['--xml'], 'unknown option --xml: expected --json, --sysroot DIR'),
                               (['--jsno'], 'unknown option --jsno (did you mean --json?): expected'),
                               (['--json=yes'], '--json takes no value'),
                               (['all'], 'unknown argument all: expected'),
                               (['--sysroot'], '--sysroot needs a value'),
                               (['--sysroot', '/nowhere'], '--sysroot has "/nowhere": No such file')):
            self.assertIn(message, self.run_to_end(INFO, *words, status=2).err)


if __name__ == '__main__':
    unittest.main()
