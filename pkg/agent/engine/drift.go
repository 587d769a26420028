// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// commandRun is the command of the service, as [Owner] has it.
const commandRun = "run"

// keeper repairs a host periodically.
type keeper struct {
	*Engine
	observer
	options  RunOptions
	repairs  repairs
	reported string // the last drift, without its time
	// awaits: when it looked last, services waited for a network that another service makes.
	awaits bool
	// unrotated are the logs that could not be rotated, by path.
	unrotated map[string]failedRotation
}

func newKeeper(e *Engine, o RunOptions) *keeper {
	return &keeper{
		Engine: e, options: o, repairs: repairs{}, observer: observer{system: e.System, digests: map[string]fileObservation{}, noFeatures: true},
		unrotated: map[string]failedRotation{},
	}
}

// check compares the host with its document once, and repairs what it may. It holds the lock of the
// host until that is recorded: an apply that comes next may know better.
func (k *keeper) check(ctx context.Context) {
	release, err := k.System.Lock(Owner{PID: os.Getpid(), Command: commandRun, Since: k.now()})
	if _, locked := errors.AsType[*LockedError](err); locked {
		return
	}
	if err != nil {
		k.tell(ctx, api.Drift{}, err, nil)
		return
	}
	// First, and whatever the host is like otherwise: without its keys nobody can log in.
	keys, keysErr := k.keepKeys()
	drift, err := k.repair(ctx)
	drift.Repaired, err = append(keys, drift.Repaired...), errors.Join(keysErr, err)
	k.tell(ctx, drift, err, k.writeDrift)
	if err := release(); err != nil {
		k.tell(ctx, api.Drift{Revision: drift.Revision}, err, nil)
	}
}

func (k *keeper) keepKeys() ([]api.Item, error) {
	if k.options.KeepKeys == nil {
		return nil, nil
	}
	return k.options.KeepKeys()
}

// tell reports a drift, and what went wrong, unless it was the last one that it told. A record is
// made before, unless it is nil.
func (k *keeper) tell(ctx context.Context, drift api.Drift, err error, record func(*api.Drift) error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		drift.Error = err.Error()
	}
	text, err := json.Marshal(drift)
	if err != nil || string(text) == k.reported {
		return
	}
	k.reported = string(text)
	if len(drift.Repaired)+len(drift.Left) == 0 && drift.Error == "" {
		return
	}
	drift.Time = k.now()
	if record != nil {
		if err := record(&drift); err != nil {
			drift.Error += fmt.Sprintf("; the drift could not be written to %s: %v", driftPath, err)
		}
	}
	if k.options.Report != nil {
		k.options.Report(drift)
	}
}

// settle takes what was left, and what was wrong, out of the recorded drift of a revision: others
// have put it right.
func (k *keeper) settle(revision string) error {
	drift, err := readDrift(k.System)
	if err != nil || drift == nil || drift.Revision != revision || len(drift.Left) == 0 && drift.Error == "" {
		return err
	}
	drift.Left, drift.Error = nil, ""
	if err := k.writeDrift(drift); err != nil {
		return fmt.Errorf("write the drift: %w", err)
	}
	return nil
}

// writeDrift records a drift, in place of the one before.
func (k *keeper) writeDrift(drift *api.Drift) error {
	text, err := json.Marshal(drift)
	if err != nil {
		return err
	}
	return k.System.WriteFile(driftPath, append(text, '\n'), config.AccessAdministrators)
}

// repair repairs the host, rotates its logs and makes its routes. Its caller holds the lock.
func (k *keeper) repair(ctx context.Context) (drift api.Drift, err error) {
	k.awaits = false
	st, err := openStore(k.System)
	if err != nil || st.Applied == "" {
		return drift, err
	}
	bundle, err := readDesired(k.System)
	if err != nil || bundle == nil {
		return drift, err
	}
	drift.Revision = st.Applied
	// Also on a host that is half way, which may stay so for long: its programs run on.
	err = errors.Join(k.rotateLogs(&bundle.Document), k.ensureRoutes(ctx, &bundle.Document))
	if st.Applying == "" {
		if managed := k.managed(); managed != nil {
			return drift, errors.Join(err, managed)
		}
		if err = errors.Join(err, k.heal(ctx, st, bundle, &drift)); err == nil && len(drift.Repaired)+len(drift.Left) == 0 {
			err = k.settle(drift.Revision)
		}
	}
	return drift, err
}

// managed says that another program has the host, nil if none has.
func (k *keeper) managed() error {
	for _, name := range k.options.Managers {
		switch s, err := k.System.Service(name); {
		case err != nil:
			return fmt.Errorf("inspect service %s: %w", name, err)
		case s != nil:
			return fmt.Errorf("service %s configures this host now, so that nothing is repaired. To have it managed here again, end who has installed it, and configure the host", name)
		}
	}
	return nil
}

// heal repairs what it may and records it.
func (k *keeper) heal(ctx context.Context, st *store, bundle *config.Bundle, drift *api.Drift) error {
	a := &application{
		Engine: k.Engine, observer: k.observer, store: st, deadlines: k.Deadlines.withDefaults(),
		result: &api.Result{}, except: k.options.Service, repairing: true,
		leave: func(item *api.Item) bool { return k.repairs.leave(item, k.now()) },
	}
	if err := a.prepare(ctx, bundle); err != nil {
		return err
	}
	drift.Left, k.awaits = a.plan.left, len(a.seen.awaited.unwritten) > 0
	var err error
	if len(a.plan.steps) > 0 {
		err = a.execute(ctx)
	}
	drift.Repaired = a.result.Changed
	k.repairs.record(drift.Repaired, a.inVain(), k.now())
	return err
}
