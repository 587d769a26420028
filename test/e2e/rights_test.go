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

// checkRights returns an error when our programs were refused something by RBAC. It writes the rights
// that the manifests give to them and that no test has had them use to the file E2E_RIGHTS, for
// who wants to take them away. It is asked when all tests are over.
func checkRights(ctx context.Context) error {
	unused, refused, err := sys.Rights(ctx)
	if err != nil {
		return err
	}
	if name := os.Getenv("E2E_RIGHTS"); name != "" {
		var list strings.Builder
		for _, right := range unused {
			fmt.Fprintln(&list, right)
		}
		if err := os.WriteFile(name, []byte(list.String()), 0o600); err != nil {
			return fmt.Errorf("writing the rights that were not used: %w", err)
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("our programs were refused: %s", refused)
	}
	return nil
}
