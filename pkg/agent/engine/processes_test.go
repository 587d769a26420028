// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"slices"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// TestProcessesOf: a stop waits for the processes of a service, and for no other ones.
func TestProcessesOf(t *testing.T) {
	const runner = `C:\k\kube-log-runner.exe -log-file=C:\var\log\kubelet\kubelet.log C:\k\kubelet.exe --config=C:\k\kubelet.conf`
	tests := []struct {
		name        string
		commandLine string
		pid         int
		alone       bool
		list        []Process
		want        []int
	}{
		{name: "the one that is known", commandLine: `C:\k\containerd.exe --run-service`, pid: 5, list: []Process{{PID: 4}, {PID: 5, Path: `C:\K\containerd.exe`}}, want: []int{5}},
		{name: "containers of a runtime are not", commandLine: `C:\k\containerd.exe`, pid: 5, alone: true,
			list: []Process{{PID: 5, Path: `C:\k\containerd.exe`}, {PID: 6, Parent: 5, Path: `C:\k\containerd-shim-runhcs-v1.exe`}}, want: []int{5}},
		{name: "one that has stopped for the service control manager", commandLine: `"C:\k\a b.exe" x`, alone: true, list: []Process{{PID: 5, Path: `c:\k\a b.exe`}}, want: []int{5}},
		{name: "that of another service with the same program", commandLine: `"C:\k\a b.exe" x`, list: []Process{{PID: 5, Path: `c:\k\a b.exe`}}},
		{name: "behind a runner", commandLine: runner, pid: 5,
			list: []Process{{PID: 5, Path: `C:\k\kube-log-runner.exe`}, {PID: 6, Parent: 5, Path: `C:\k\kubelet.exe`}, {PID: 7, Path: `C:\k\kube-log-runner.exe`}, {PID: 8, Parent: 7, Path: `C:\k\kube-proxy.exe`}}, want: []int{6, 5}},
		{name: "behind a runner, and known itself", commandLine: runner, pid: 6,
			list: []Process{{PID: 5, Path: `C:\k\kube-log-runner.exe`}, {PID: 6, Parent: 5, Path: `C:\k\kubelet.exe`}}, want: []int{6, 5}},
		{name: "the number of the runner is that of a later one", commandLine: runner,
			list: []Process{{PID: 5, Started: 9, Path: `C:\k\kube-log-runner.exe`}, {PID: 6, Started: 8, Parent: 5, Path: `C:\k\kubelet.exe`}}, want: []int{6}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &Service{PID: tt.pid, Settings: config.ServiceSettings{CommandLine: tt.commandLine}}
			var got []int
			for _, p := range processesOf(s, tt.list, tt.alone) {
				got = append(got, p.PID)
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestStopLeavesOthersAlone: a service with the same program runs on.
func TestStopLeavesOthersAlone(t *testing.T) {
	first, _ := bundles(t)
	d := &first.Document
	d.Services = slices.Clone(d.Services)
	d.Services[2].BinaryPath = d.Services[1].BinaryPath
	f := usedHost(t, first)
	converge(t, f, first)
	before := f.services["overlay"].pid
	second := first
	second.Document.Services = slices.Clone(d.Services)
	second.Document.Services[1].Arguments = append(slices.Clone(d.Services[1].Arguments), "--v=4")
	converge(t, f, second)
	if after := f.services["overlay"].pid; after != before {
		t.Errorf("its process was %d and is %d", before, after)
	}
}
