// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

// APIs of Windows that checks are about, and that Wine may lack.
const (
	apiSecurity     = "icacls.exe, GetNamedSecurityInfo"
	apiPowerShell   = "powershell.exe"
	apiDependencies = "sc.exe qc"
	apiRecovery     = "ChangeServiceConfig2, SERVICE_CONFIG_FAILURE_ACTIONS"
	apiNetsh        = "netsh advfirewall"
	apiHNS          = "vmcompute.dll, HNSCall"
	apiEvents       = "wevtapi.dll, EvtQuery"
	apiShutdown     = "shutdown.exe /t"
	apiUpdates      = "wuapi.dll, IUpdateSearcher"
)

// MissingInWine says which APIs Wine lacks, by their names, and why checks that need them
// fail there. Where it has a stub, or one of ours (test/winhost/shim), a check that
// succeeds proves that we call it, and nothing about Windows.
var MissingInWine = map[string]string{
	apiSecurity:     "there is a program of the name that does nothing, and of an access control list no more is kept than mode bits",
	apiPowerShell:   "there is a program of the name, and it does nothing",
	apiDependencies: "its sc.exe has no qc, and QueryServiceConfig tells no dependencies; they are read from the registry",
	apiRecovery:     "recovery actions are neither kept nor carried out",
	apiNetsh:        "there is a program of the name, and it does nothing",
	apiHNS:          "there is no Host Networking Service",
	apiUpdates:      "its Windows Update Agent has the interfaces, and finds nothing: Search is not implemented",
	apiShutdown:     "there is a program of the name, and it does nothing",
	apiEvents:       "there is no event log: it takes events, keeps none, and finds none",
}
