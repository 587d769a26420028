// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openshift/windows-instance-api/pkg/backoff"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// MaxBastionPause is how long a bastion that refuses the login is not logged in to again at the most.
const MaxBastionPause = 5 * time.Minute

// bastionBackoff is between logins to a bastion that refuses them. It is longer than that of a host that fails: a bastion is shared, and
// what it does about failed logins also concerns others who come from the same address. fail2ban, as it is installed, bans an address after five of
// them in ten minutes. Here there are four at the most of a login that does not work. When one that worked is withdrawn, those that are
// under way fail too, up to three of each pool of connections and namespace: as long as a login works, nobody waits for the result of another one.
var bastionBackoff = wait.Backoff{Duration: time.Minute, Factor: 2, Cap: MaxBastionPause}

// NewRefusals returns what remembers the bastions that refuse a login, for all pools of connections of a process.
func NewRefusals(now func() time.Time) *ssh.Refusals {
	return ssh.NewRefusals(func(refusals int) time.Duration { return backoff.After(bastionBackoff, refusals) }, now)
}
