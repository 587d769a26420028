// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"cmp"
	"context"
	"errors"
	"net/netip"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
)

// attempt is one walk through the steps of a probe.
type attempt struct {
	*Reconciler

	instance *v1alpha1.WindowsInstance
	// keysOfWMCO: which keys the host accepts is left to WMCO.
	keysOfWMCO bool
	// uncompared: the host keys that WMCO has in its ConfigMap may not be read.
	uncompared bool
	seen       *observation
}

// errStop ends an attempt on purpose: there is more to do, and it must wait.
var errStop = errors.New("stop")

// probeSteps each go one layer further. The first error ends the attempt.
var probeSteps = []struct {
	stage diagnose.Stage
	run   func(*attempt, context.Context) error
}{
	{diagnose.StageResolve, (*attempt).resolve},
	{diagnose.StageResolve, (*attempt).admitted},
	{diagnose.StageHostKey, (*attempt).hostKey},
	{diagnose.StageLogin, (*attempt).login},
	{diagnose.StageLogin, (*attempt).rotateKey},
	{diagnose.StageFacts, (*attempt).facts},
}

// run walks through the steps.
func (a *attempt) run(ctx context.Context) *observation {
	a.seen.started = a.clock.Now()
	for _, s := range probeSteps {
		err := s.run(a, ctx)
		if errors.Is(err, errStop) {
			break
		}
		if err != nil {
			a.seen.failed, a.seen.err = cmp.Or(a.seen.failed, s.stage), err
			break
		}
	}
	a.seen.finished = a.clock.Now()
	a.seen.hung = a.seen.err != nil && hung(a.seen.failed, a.seen.err, a.instance)
	a.seen.result = resultOf(a.seen, a.instance)
	return a.seen
}

// resolve finds the addresses of the host.
func (a *attempt) resolve(ctx context.Context) error {
	addresses, err := a.Hosts.Resolve(ctx, a.instance)
	if err != nil {
		return err
	}
	a.seen.addresses = addressStrings(addresses)
	return nil
}

// admitted keeps a second instance off a host, now that the addresses are known.
func (a *attempt) admitted(ctx context.Context) error {
	other, err := findDuplicate(ctx, a.client, a.instance, addressesOf(a.instance, a.seen), a.Namespace)
	if err != nil {
		return err
	}
	if other != nil {
		a.seen.duplicate = true
		return errStop
	}
	return nil
}

// hostKey reads the key of a host that has no trusted key yet, and ends the
// attempt, so that the key is recorded before anything else is done. Where keys
// are trusted the login verifies them: asking first would only be another connection.
func (a *attempt) hostKey(ctx context.Context) error {
	decision := trust(a.instance.Spec.HostKeys, a.instance.Status.HostKeys, a.instance.LostStatus(), host.Key{})
	switch decision.verdict {
	case verdictVerify:
		return nil
	case verdictUnusable:
		return &unusableKeyError{decision.err}
	}
	if a.instance.LostStatus() {
		if err := a.askHostKey(ctx, a.instance); err != nil {
			return err
		}
		a.seen.unconfirmed = true // whatever it is, somebody has to say that it is the right one
		return errStop
	}
	known, err := a.metByWMCO(ctx)
	if err != nil {
		return &unusableKeyError{err}
	}
	if err := a.compareWithWMCO(ctx, known); err != nil {
		return err
	}
	if a.uncompared {
		a.sayUncompared()
	}
	return errStop
}

// askHostKey reads the key of the host, of several one of a type that as trusts.
func (a *attempt) askHostKey(ctx context.Context, as *v1alpha1.WindowsInstance) error {
	key, err := a.Hosts.HostKey(ctx, as)
	if err != nil {
		return err
	}
	a.seen.presented, a.seen.contacted = key, true
	return nil
}

// login verifies the host key and logs in.
func (a *attempt) login(ctx context.Context) error {
	peer, err := a.Hosts.Login(ctx, a.instance)
	if err == nil {
		a.seen.peer, a.seen.contacted, a.seen.verified, a.seen.loggedIn = peer, true, true, true
		return nil
	}
	reach := diagnose.ReachOf(err)
	if !reach.Tried && !diagnose.IsInconclusive(err) && ctx.Err() == nil {
		// Something was missing to try it, for example the Secret. Whether the host can
		// be reached is worth knowing all the same, and comes first.
		if askErr := a.askHostKey(ctx, a.instance); askErr != nil && diagnose.ReachOf(askErr).Tried {
			a.seen.failed = diagnose.StageHostKey
			return askErr
		}
		return err
	}
	a.seen.contacted, a.seen.verified = reach.Contacted, reach.Verified
	return err
}

// unusableKeyError means that a key which should be trusted cannot be read, or that others cannot which decide whether one may be.
type unusableKeyError struct{ err error }

func (e *unusableKeyError) Error() string { return e.err.Error() }

func (e *unusableKeyError) Unwrap() error { return e.err }

// agentDigest is the digest of the agent on the host. That of ours is not asked for again: it was verified when the agent was placed, and is part
// of the name by which it is run.
func (a *attempt) agentDigest(ctx context.Context) (string, error) {
	if _, ours := a.Hosts.Agent(); ours != "" && a.instance.Status.CurrentRevision == ours {
		return ours, nil
	}
	return a.Hosts.AgentDigest(ctx, a.instance)
}

// facts inspects the host. That puts our agent there, so that the object must be held before: it
// is removed from the host with the object.
func (a *attempt) facts(ctx context.Context) error {
	if !held(a.instance) {
		a.seen.unheld = true
		return errStop
	}
	digest := ""
	if a.Desired == nil { // it is the revision of a host that is only watched
		var err error
		if digest, err = a.agentDigest(ctx); err != nil {
			return err
		}
	}
	asked := a.clock.Now()
	facts, err := a.Hosts.Facts(ctx, a.instance)
	if err != nil {
		return err
	}
	facts.Agent.SHA256 = digest
	a.seen.report = newReport(facts, asked, a.clock.Now())
	return nil
}

func addressStrings(addresses []netip.Addr) []string {
	out := make([]string, len(addresses))
	for i, address := range addresses {
		out[i] = address.Unmap().String()
	}
	return out
}
