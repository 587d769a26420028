// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// writeRights writes what RBAC refused to our programs, and the rights that the manifests give to
// them and that no test has had them use, to the file E2E_RIGHTS: for who changes these rights. It
// is asked when all tests are over. Some tests want refusals, such as of Secrets that nobody has
// allowed our programs to read.
func writeRights(ctx context.Context) error {
	name := os.Getenv("E2E_RIGHTS")
	if name == "" {
		return nil
	}
	unused, refused, err := sys.Rights(ctx)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, right := range refused {
		fmt.Fprintln(&list, "refused:", right)
	}
	for _, right := range unused {
		fmt.Fprintln(&list, "not used:", right)
	}
	if err := os.WriteFile(name, []byte(list.String()), 0o600); err != nil {
		return fmt.Errorf("writing the rights of our programs: %w", err)
	}
	return nil
}
