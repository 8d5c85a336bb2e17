"""Scripts that import torchmetrics, torcheval or ignite, rewritten to import torchtally: formatting kept, and what cannot be moved listed."""

from .files import FileMigration, migrate_file, migrate_paths, write
from .migrating import Migration, migrate_source
from .remarks import Remark

__all__ = ["FileMigration", "Migration", "Remark", "migrate_file", "migrate_paths", "migrate_source", "write"]
