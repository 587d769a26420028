// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import "github.com/openshift/windows-instance-api/pkg/agent/api/config"

// ReleasedDirectory is where files are that existed before a host was configured, once it was given up: what took their place runs
// on, and whoever has the host next may remove that without putting anything back. It is beside [Root], so that it stays when the
// agent is removed.
const ReleasedDirectory = Root + "-released"

// ReleaseRequest requests that the agent gives the host up: what makes the host a node stays as it is, and runs on, and nothing of
// it is the agent's any more. It can be repeated.
type ReleaseRequest struct {
	// Imported is the path of the file in which the program that takes the host over finds the certificates that were imported
	// into the store of Windows, in PEM, so that it removes them with its own. Those of ours are written there if there is no
	// such file. Empty: they are recorded nowhere.
	Imported string `json:"imported,omitempty"`
	// Manager is the service of that program. Where it is on the host already, it starts the services that our agent has started,
	// and Windows does not. Empty: Windows does.
	Manager string `json:"manager,omitempty"`
	// ManagerCertificates is the directory in which that service keeps the certificates with which it logs in to the cluster. Where the
	// service is not on the host, it is removed with all that is in it: nobody has renewed them, and the program would use them, expired
	// or not, because they are there. Empty: nothing is removed.
	ManagerCertificates string `json:"managerCertificates,omitempty"`
}

// Validate says what is wrong with a request.
func (r *ReleaseRequest) Validate() error {
	for _, path := range []string{r.Imported, r.ManagerCertificates} {
		if path == "" {
			continue
		}
		if err := config.CheckPath(path); err != nil {
			return err
		}
	}
	return nil
}

// Left is what whoever has a host next has to know of it.
type Left struct {
	// Aside says that files that existed before are in [ReleasedDirectory] now.
	Aside bool `json:"aside,omitempty"`
	// Routes are destinations to which routes were made again after each boot. Nobody does from now on.
	Routes []string `json:"routes,omitempty"`
	// KeysReplaced: keys that may log in were replaced, and what authorizes the former ones again, as the user data of a
	// machine does at each boot, is not undone any more.
	KeysReplaced bool `json:"keysReplaced,omitempty"`
	// Incomplete: the last configuration of the host was not completed.
	Incomplete bool `json:"incomplete,omitempty"`
}
